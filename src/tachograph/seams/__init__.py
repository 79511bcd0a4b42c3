"""One file per transport: it watches one boundary, calls whoever listens, and knows neither recording nor replaying."""
