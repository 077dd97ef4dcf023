"""The pages of the site, one file each; `build.PAGES` lists them."""
