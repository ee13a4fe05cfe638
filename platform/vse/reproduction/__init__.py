"""Printed tables from one command: the rows of the papers' tables, trained and measured under one protocol."""
