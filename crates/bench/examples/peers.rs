//! Runs TPC-B on one engine and prints the report as a line of JSON.
//!
//! ```text
//! cargo run --release -p libtp-bench --features peers --example peers -- \
//!     --engine lmdb --accounts 1000000 --seconds 5 --clients 1 --durability relaxed
//! ```
//!
//! `--engine`: sqlite, lmdb, redb, fjall, bdb (with `--features peers-all`), hashmap, btreemap (the same as `--in-memory`), disk (the bare loop of
//! write and fdatasync), or several with commas between: they are then measured in turns of ten
//! slices, by threads, one line each. `--env DIR` keeps the banks; without it a fresh directory
//! is removed at the end. Exit: 0 done, 1 failed or the audit disagrees, 2 wrong usage.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::str::FromStr;
use std::time::{Duration, Instant};

use libtp_bench::{
    open_engine, run_processes, run_threads, serve_client, BareDisk, ClientsAs, Engine, EngineKind, Error,
    OpenSettings, Result, RunSettings, Scale, Sharing, Turns,
};

/// How many slices of each there are when several are measured in turns.
const SLICES: u32 = 10;

/// What is measured.
#[derive(Clone, Copy, PartialEq)]
enum Contender {
    Engine(EngineKind),
    Disk,
}

/// The command line, understood.
struct Arguments {
    contenders: Vec<Contender>,
    directory: Option<PathBuf>,
    clients_as: ClientsAs,
    serve: bool,
    settings: RunSettings,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments> {
    let mut arguments = Arguments {
        contenders: vec![Contender::Engine(EngineKind::BTreeMap)],
        directory: None,
        clients_as: ClientsAs::Threads,
        serve: false,
        settings: RunSettings::default(),
    };
    let settings = &mut arguments.settings;
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| Error::Settings(format!("{word} needs a value")));
        match word.as_str() {
            "--engine" => {
                arguments.contenders = value()?.split(',').map(contender).collect::<Result<_>>()?;
            }
            "--in-memory" => arguments.contenders = vec![Contender::Engine(EngineKind::BTreeMap)],
            "--env" => arguments.directory = Some(PathBuf::from(value()?)),
            "--accounts" => settings.scale = Scale::with_accounts(number(&word, &value()?)?),
            "--clients" => settings.clients = number(&word, &value()?)?,
            "--seed" => settings.seed = number(&word, &value()?)?,
            "--seconds" => settings.measured = seconds(&word, &value()?)?,
            "--warmup" => settings.warmup = seconds(&word, &value()?)?,
            "--durability" => settings.durability = value()?.parse()?,
            "--read-only" => settings.read_only = true,
            "--as" => arguments.clients_as = clients_as(&value()?)?,
            "--serve-client" => arguments.serve = true,
            _ => return Err(Error::Settings(format!("{word} is not understood"))),
        }
    }
    Ok(arguments)
}

fn contender(name: &str) -> Result<Contender> {
    if name == "disk" {
        return Ok(Contender::Disk);
    }
    name.parse().map(Contender::Engine)
}

fn number<T: FromStr>(word: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| Error::Settings(format!("{word} needs a number, not {value:?}")))
}

fn seconds(word: &str, value: &str) -> Result<Duration> {
    Duration::try_from_secs_f64(number(word, value)?).map_err(|e| Error::Settings(format!("{word}: {e}")))
}

fn clients_as(value: &str) -> Result<ClientsAs> {
    match value {
        "threads" => Ok(ClientsAs::Threads),
        "processes" => Ok(ClientsAs::Processes),
        _ => Err(Error::Settings(format!("--as is threads or processes, not {value:?}"))),
    }
}

/// True if all is well, false if the audit disagrees.
fn run(arguments: &Arguments) -> Result<bool> {
    let fresh = std::env::temp_dir().join(format!("libtp-bench-{}", std::process::id()));
    let directory = arguments.directory.as_ref().unwrap_or(&fresh);
    std::fs::create_dir_all(directory).map_err(Error::file("create", directory))?;
    let outcome = match arguments.contenders.as_slice() {
        [Contender::Disk] => bare_disk(directory, arguments.settings.measured),
        [Contender::Engine(kind)] => bank(*kind, directory, arguments),
        several => in_turns(several, directory, &arguments.settings),
    };
    if arguments.directory.is_none() {
        std::fs::remove_dir_all(&fresh).map_err(Error::file("remove", &fresh))?;
    }
    outcome
}

fn bare_disk(directory: &Path, time: Duration) -> Result<bool> {
    let mut disk = BareDisk::create(directory)?;
    disk.run_for(time)?;
    show_disk(&disk);
    Ok(true)
}

fn show_disk(disk: &BareDisk) {
    println!("{}", serde_json::to_string(&disk.report()).expect("a report has only finite numbers"));
}

fn bank(kind: EngineKind, directory: &Path, arguments: &Arguments) -> Result<bool> {
    let settings = &arguments.settings;
    let durability = settings.durability;
    let sharing = match (arguments.serve, arguments.clients_as) {
        (true, _) => Sharing::Joined,
        (false, ClientsAs::Processes) => Sharing::First,
        (false, ClientsAs::Threads) => Sharing::Alone,
    };
    let engine = open_engine(kind, &OpenSettings { directory, durability, sharing })?;
    if arguments.serve {
        let mut orders = std::io::BufReader::new(std::io::stdin());
        serve_client(engine.as_ref(), &mut orders, &mut std::io::stdout())?;
        engine.close()?;
        return Ok(true);
    }
    if !is_loaded(engine.as_ref())? {
        load(engine.as_ref(), &settings.scale)?;
    }
    let mut show = |now: &libtp_bench::Progress| eprint!("\r{} a second  ", now.tps_now);
    let report = match arguments.clients_as {
        ClientsAs::Threads => run_threads(engine.as_ref(), settings, &mut show)?,
        ClientsAs::Processes => {
            let mut again = |_client| this_program_again(kind, directory, durability.name());
            run_processes(engine.as_ref(), settings, &mut again, &mut show)?
        }
    };
    eprintln!();
    println!("{}", report.to_json_line());
    engine.close()?;
    Ok(report.audit_is_ok())
}

fn in_turns(contenders: &[Contender], directory: &Path, settings: &RunSettings) -> Result<bool> {
    let mut engines = Vec::new();
    for contender in contenders {
        let Contender::Engine(kind) = contender else { continue };
        let directory = directory.join(kind.name());
        std::fs::create_dir_all(&directory).map_err(Error::file("create", &directory))?;
        let durability = settings.durability;
        let engine = open_engine(*kind, &OpenSettings { directory: &directory, durability, sharing: Sharing::Alone })?;
        if !is_loaded(engine.as_ref())? {
            load(engine.as_ref(), &settings.scale)?;
        }
        engines.push(engine);
    }
    let mut turns = engines.iter().map(|e| Turns::new(e.as_ref(), settings)).collect::<Result<Vec<_>>>()?;
    let mut disk = contenders.contains(&Contender::Disk).then(|| BareDisk::create(directory)).transpose()?;
    let slice = settings.measured / SLICES;
    for _ in 0..SLICES {
        turns.iter_mut().try_for_each(|turn| turn.run_for(slice, &mut |_| {}))?;
        disk.iter_mut().try_for_each(|disk| disk.run_for(slice))?;
    }
    let mut all_ok = true;
    for turn in turns {
        let report = turn.report()?;
        all_ok &= report.audit_is_ok();
        println!("{}", report.to_json_line());
    }
    disk.iter().for_each(show_disk);
    engines.into_iter().try_for_each(Engine::close)?;
    Ok(all_ok)
}

fn is_loaded(engine: &dyn Engine) -> Result<bool> {
    let mut branches = 0;
    engine.walk(libtp_bench::Table::Branch, &mut |_, _| branches += 1)?;
    Ok(branches > 0)
}

fn load(engine: &dyn Engine, scale: &Scale) -> Result<()> {
    let begin = Instant::now();
    let total = scale.total();
    engine.load(scale, &mut |loaded| eprint!("\rloaded {loaded} of {total}  "))?;
    eprintln!("in {:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}

fn this_program_again(kind: EngineKind, directory: &Path, durability: &str) -> Command {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe"));
    let mut command = Command::new(program);
    command.args(["--serve-client", "--engine", kind.name(), "--durability", durability, "--env"]).arg(directory);
    command
}
