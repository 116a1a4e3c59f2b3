"""Fine-tuning of the two controllers: demonstrations, training, evaluation. To come."""
