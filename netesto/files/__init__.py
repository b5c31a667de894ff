"""Files: written whole or not at all, read strictly, and their places."""
