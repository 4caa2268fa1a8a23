"""How facts.txt is made from Kafka's own jars."""
