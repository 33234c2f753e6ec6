"""The edge towards agents and humans: two Unix sockets, who is behind them, and how errors become replies."""
