"""What a pretrained network finds of two photographs in their average, and at which stage (B5)."""
