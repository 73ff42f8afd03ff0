"""How fast events get out, and what that takes."""
