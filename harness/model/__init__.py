"""Operations, results, options, protocols and errors, shared by all packages. Imports no other package."""
