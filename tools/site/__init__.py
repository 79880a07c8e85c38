"""The book: pages for Sphinx from the notebooks, the claims, the result tables and the docstrings.

`python -m tools.site` (`make site`) writes the sources of the pages to `build/site-source`, from
what is committed, and lets Sphinx build `build/site` from them. No notebook is executed. What a
page needs to be read lies in the site: no other host is asked, and `file://` will do.

* `links`: where a file of the repository stands in the book, and links that follow it there
* `chapters`: notebooks;  `tables`: result tables and their provenance;  `pages`: claims,
  bibliography and what stands in the README;  `api`: the reference from docstrings
* `mathjax`: the only thing fetched, once, checked against its hash and kept
"""
