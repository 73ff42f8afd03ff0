"""Where events go: one module a kind of server, behind one seam."""
