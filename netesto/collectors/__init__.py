"""What an agent observes on its host: one module for each source."""
