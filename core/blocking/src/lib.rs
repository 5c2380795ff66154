//! Reports to blocking histogram to tail band to request blocking counts.
