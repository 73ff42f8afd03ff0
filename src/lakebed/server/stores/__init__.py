"""Opens the stores of the settings and the secrets of the data folder."""
