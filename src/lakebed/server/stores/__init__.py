"""The stores that the settings name, opened, and the secrets of the data folder."""
