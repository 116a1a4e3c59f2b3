"""The bank: the database that is the only truth, its blobs, and what is derived from them."""
