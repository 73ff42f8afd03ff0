"""What Polaris adds to the catalog's contract, as its clients speak to it: policies. In the catalog's frame."""
