//! Properties and damage of the manifest and the secret.
