"""`lakebed check storage`: whether a store does what is asked of it, tried step by step and told in plain words."""
