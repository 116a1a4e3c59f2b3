"""Records: everything that crosses a file, a prompt or the database."""
