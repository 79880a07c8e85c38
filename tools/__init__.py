"""What stands beside package and studies: builds of notebooks and book, checks, comparisons."""
