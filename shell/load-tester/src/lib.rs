//! Open-loop load: schedule, pacing, lateness, recorder.
