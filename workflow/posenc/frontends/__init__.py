"""What Snakemake and DVC are told of the files that are there, and what a killed run leaves."""
