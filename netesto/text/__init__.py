"""Text for people: what is safe to print, and what an author may have meant."""
