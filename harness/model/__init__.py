"""The leaf: operations, histories, results, options, protocols and errors. Imports no other package."""
