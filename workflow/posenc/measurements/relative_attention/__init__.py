"""What a model's weights alone say about where its heads look (C3)."""
