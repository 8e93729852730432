//! The parts of `cargo xtask kernels --archive` and `--instances` that know sources and files:
//! `plan LIST FOLDER` writes what the compiler shall see, and `units.tsv` beside it (file, `all` or `groups`, keys);
//! `pack FOLDER OUT` makes the archive of what it made (`NAME.fatbin`);
//! `merge LIST RECORDED...` adds what programs asked for to the list, `check LIST RECORDED...` says what the list lacks.

#![forbid(unsafe_code)]

use flambeau_cuda::archive::{Archive, Kind, hex, list, plan, unhex};
use std::collections::BTreeSet;
use std::error::Error;
use std::fs::{read, read_to_string, write};
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match &args[..] {
        ["plan", file, folder] => {
            let folder = Path::new(folder);
            let mut table = String::new();
            for unit in plan(&list(&read_to_string(file)?).map_err(said)?).map_err(said)? {
                // a unit that stayed as it was has the name that it had, and need not be compiled again
                let name = &unit.name;
                write(folder.join(format!("{name}.cu")), unit.for_nvcc())?;
                let keys: Vec<String> = unit.keys.iter().map(hex).collect();
                let who = if unit.groups { "groups" } else { "all" };
                table += &format!("{name}\t{who}\t{}\n", keys.join(" "));
            }
            write(folder.join("units.tsv"), table)?;
        }
        ["pack", folder, out] => {
            let folder = Path::new(folder);
            let mut units = Vec::new();
            for line in read_to_string(folder.join("units.tsv"))?.lines() {
                let mut parts = line.split('\t');
                let (Some(name), Some(_), Some(keys)) = (parts.next(), parts.next(), parts.next()) else {
                    return Err(format!("units.tsv: {line}").into());
                };
                let keys: Option<Vec<_>> = keys.split(' ').map(unhex).collect();
                let keys = keys.ok_or_else(|| format!("units.tsv: {line}"))?;
                let file = folder.join(format!("{name}.fatbin"));
                // units for an architecture that was not asked for are not there
                if file.is_file() {
                    units.push((read(file)?, keys));
                }
            }
            let bytes = Archive::write(Kind::Device, &units);
            let made = Archive::open(bytes.clone()).map_err(said)?;
            write(out, &bytes)?;
            println!("{}: {} kernels in {} units, {} bytes", out, made.instances(), units.len(), bytes.len());
        }
        ["merge" | "check", file, recorded @ ..] => {
            let old = read_to_string(file)?;
            let known = list(&old).map_err(said)?;
            let mut all = known.clone();
            for r in recorded {
                all.extend(list(&read_to_string(r)?).map_err(said)?);
            }
            let fresh: BTreeSet<_> = all.difference(&known).collect();
            println!("{} instances, {} new", all.len(), fresh.len());
            if args[0] == "check" {
                fresh.iter().take(20).for_each(|i| println!("missing: {}", i.line()));
                return if fresh.is_empty() {
                    Ok(())
                } else {
                    Err("kernels/instances.tsv lacks kernels".into())
                };
            }
            let head: String = old.lines().filter(|l| l.starts_with('#')).map(|l| format!("{l}\n")).collect();
            write(file, all.iter().fold(head, |s, i| s + &i.line() + "\n"))?;
        }
        _ => {
            return Err(
                "usage: archive plan LIST FOLDER | pack FOLDER OUT | merge LIST FILE... | check LIST FILE..."
                    .into(),
            );
        }
    }
    Ok(())
}
fn said(e: flambeau_core::Error) -> Box<dyn Error> {
    e.message().into()
}
