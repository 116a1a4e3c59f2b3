"""Fine-tuning of the two controllers: demonstrations, training, evaluation. Its first commands come later."""
