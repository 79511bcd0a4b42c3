"""One file per transport: each watches one boundary and calls whoever listens. A seam knows neither recording nor replaying."""
