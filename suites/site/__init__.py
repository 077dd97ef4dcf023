"""The results site: static pages that are built from stored records alone. `build.build_site` makes them."""
