"""Runnable scenarios with a peer beside us; `README.md` says how to run and read them."""
