"""Tables of captions in the forms in which people and programs write them."""
