//! Properties and damage of generations.
