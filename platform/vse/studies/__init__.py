"""Studies: which runs answer the claims of the papers, registered beforehand; how they are run, and what they found."""
