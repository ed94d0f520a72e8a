"""The report: results as one HTML page that needs nothing beside itself, with its plots."""
