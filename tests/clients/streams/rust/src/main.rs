//! Drives the released Rust client of Apache Fluss: one command of JSON per line in, one answer of JSON per line out.
//!
//! Tables have an `id` (INT) and a `region` (STRING), by which they are partitioned.
//! Scanners, writers and lookupers are created on first use and kept, with their cached metadata.

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, Write};
use std::time::Duration;

use fluss::client::{
    AppendWriter, FlussConnection, FlussTable, LogScanner, Lookuper, UpsertWriter,
};
use fluss::config::Config;
use fluss::metadata::TablePath;
use fluss::row::{DataGetters, GenericRow};
use serde_json::{Value, json};

type Answer = Result<Value, Box<dyn Error>>;

struct Client {
    connection: &'static FlussConnection,
    tables: HashMap<String, &'static FlussTable<'static>>,
    scanners: HashMap<String, LogScanner>,
    appenders: HashMap<String, AppendWriter>,
    upserters: HashMap<String, UpsertWriter>,
    lookupers: HashMap<String, Lookuper>,
}

impl Client {
    async fn connect(address: &str, user: &str, secret: &str) -> Result<Client, Box<dyn Error>> {
        let config = Config {
            bootstrap_servers: address.to_string(),
            security_protocol: "sasl".to_string(),
            security_sasl_mechanism: "PLAIN".to_string(),
            security_sasl_username: user.to_string(),
            security_sasl_password: secret.to_string(),
            writer_batch_timeout_ms: 1,
            lookup_batch_timeout_ms: 1,
            // Without a limit a lookup in a dropped partition never ends.
            lookup_max_retries: 5,
            ..Config::default()
        };
        let connection = FlussConnection::new(config).await?;
        Ok(Client {
            // Tables borrow it, and both last as long as the program.
            connection: Box::leak(Box::new(connection)),
            tables: HashMap::new(),
            scanners: HashMap::new(),
            appenders: HashMap::new(),
            upserters: HashMap::new(),
            lookupers: HashMap::new(),
        })
    }

    async fn table(&mut self, name: &str) -> Result<&'static FlussTable<'static>, Box<dyn Error>> {
        if !self.tables.contains_key(name) {
            let (database, table) = name
                .split_once('.')
                .ok_or("a table is named database.table")?;
            let opened = self
                .connection
                .get_table(&TablePath::new(database, table))
                .await?;
            self.tables
                .insert(name.to_string(), Box::leak(Box::new(opened)));
        }
        Ok(self.tables[name])
    }

    async fn answer(&mut self, command: &Value) -> Answer {
        let name = command["table"].as_str().ok_or("a command names a table")?;
        match command["do"].as_str().unwrap_or_default() {
            "subscribe" => self.subscribe(name, command).await,
            "poll" => self.poll(name, command).await,
            "append" => self.append(name, command).await,
            "upsert" => self.upsert(name, command).await,
            "lookup" => self.lookup(name, command).await,
            other => Err(format!("no such command: {other}").into()),
        }
    }

    async fn subscribe(&mut self, name: &str, command: &Value) -> Answer {
        let table = self.table(name).await?;
        if !self.scanners.contains_key(name) {
            self.scanners
                .insert(name.to_string(), table.new_scan().create_log_scanner()?);
        }
        let partition = command["partition_id"]
            .as_i64()
            .ok_or("a partition is named by its id")?;
        self.scanners[name]
            .subscribe_partition(partition, 0, fluss::client::EARLIEST_OFFSET)
            .await?;
        Ok(Value::Null)
    }

    async fn poll(&mut self, name: &str, command: &Value) -> Answer {
        let scanner = self.scanners.get(name).ok_or("subscribe first")?;
        let found = scanner.poll(wait(command)).await?;
        let mut ids = Vec::new();
        for records in found.records_by_buckets().values() {
            for record in records {
                ids.push(record.row().get_int(0)?);
            }
        }
        Ok(json!(ids))
    }

    async fn append(&mut self, name: &str, command: &Value) -> Answer {
        let table = self.table(name).await?;
        if !self.appenders.contains_key(name) {
            self.appenders
                .insert(name.to_string(), table.new_append()?.create_writer()?);
        }
        let written = self.appenders[name].append(&row(command)?)?;
        tokio::time::timeout(wait(command), written).await??;
        Ok(Value::Null)
    }

    async fn upsert(&mut self, name: &str, command: &Value) -> Answer {
        let table = self.table(name).await?;
        if !self.upserters.contains_key(name) {
            self.upserters
                .insert(name.to_string(), table.new_upsert()?.create_writer()?);
        }
        let written = self.upserters[name].upsert(&row(command)?)?;
        tokio::time::timeout(wait(command), written).await??;
        Ok(Value::Null)
    }

    async fn lookup(&mut self, name: &str, command: &Value) -> Answer {
        let table = self.table(name).await?;
        if !self.lookupers.contains_key(name) {
            self.lookupers
                .insert(name.to_string(), table.new_lookup()?.create_lookuper()?);
        }
        let lookuper = self.lookupers.get_mut(name).ok_or("no lookuper")?;
        let found = tokio::time::timeout(wait(command), lookuper.lookup(&row(command)?)).await??;
        Ok(match found.get_single_row()? {
            Some(row) => json!(row.get_int(0)?),
            None => Value::Null,
        })
    }
}

fn wait(command: &Value) -> Duration {
    Duration::from_millis(command["wait_ms"].as_u64().unwrap_or(10_000))
}

fn row(command: &Value) -> Result<GenericRow<'_>, Box<dyn Error>> {
    let mut row = GenericRow::new(2);
    row.set_field(
        0,
        i32::try_from(command["id"].as_i64().ok_or("a row has an id")?)?,
    );
    row.set_field(1, command["region"].as_str().ok_or("a row has a region")?);
    Ok(row)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, user, secret] = arguments.as_slice() else {
        return Err("usage: stream-client ADDRESS USER SECRET".into());
    };
    let mut client = Client::connect(address, user, secret).await?;
    for line in std::io::stdin().lock().lines() {
        let answer = match client.answer(&serde_json::from_str(&line?)?).await {
            Ok(found) => json!({ "found": found }),
            Err(error) => json!({ "error": error.to_string() }),
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}
