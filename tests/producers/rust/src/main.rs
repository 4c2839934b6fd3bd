//! producers BROKERS TOPIC FILE [NAME=VALUE …]: writes the records of FILE, one {"key", "value"} a line, with settings.
use std::{env, fs, time::Duration};

use rdkafka::config::ClientConfig;
use rdkafka::producer::{FutureProducer, FutureRecord};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = env::args().collect();
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &arguments[1]);
    for setting in &arguments[4..] {
        let (name, value) = setting.split_once('=').expect("NAME=VALUE");
        config.set(name, value);
    }
    let producer: FutureProducer = config.create().expect("settings");
    for line in fs::read_to_string(&arguments[3]).expect("a file").lines() {
        let record: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let mut sent = FutureRecord::<str, str>::to(&arguments[2]).payload(record["value"].as_str().expect("a value"));
        if let Some(key) = record["key"].as_str() {
            sent = sent.key(key);
        }
        producer.send(sent, Duration::from_secs(60)).await.expect("confirmed");
    }
}
