//! Requests, popularity, sizes, arrivals, capacity over time and traces.
