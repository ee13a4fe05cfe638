"""Registered studies of the papers' claims: their arms, trainings, measures and findings."""
