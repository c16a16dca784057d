"""The checks of consume-transform-produce pipelines: their outputs against their inputs, and their offsets."""
