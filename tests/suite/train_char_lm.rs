//! The example `train_char_lm`: its arguments, its text, its model, its losses, and a short run of it.

#[path = "../../examples/train_char_lm/cli.rs"]
mod cli;
#[path = "../../examples/train_char_lm/curve.rs"]
mod curve;
#[path = "../../examples/train_char_lm/model.rs"]
mod model;
#[path = "../../examples/train_char_lm/sample.rs"]
mod sample;
#[path = "../../examples/train_char_lm/text.rs"]
mod text;
#[path = "../../examples/train_char_lm/training.rs"]
mod training;

use self::{
    cli::{Command, Request},
    curve::Losses,
    model::{CharLm, Characters, Context},
    text::{PLAY, Text},
    training::Run,
};
use crate::dtype::Dtype;
use crate::io::Folder;
use crate::modules::{bits, names};
use shapeproof::{
    Batch, C, Generator, Infer, Seq, Static, Tensor, count_parameters, try_cross_entropy,
};
use std::ffi::OsString;

fn parse(args: &[&str]) -> Result<Command, String> {
    cli::parse(args.iter().map(OsString::from))
}

#[test]
fn without_arguments_a_run_has_600_steps() {
    let request = Request {
        steps: 600,
        seed: 1,
        out: "train_char_lm".into(),
        dtype: Dtype::F32,
        resume: false,
    };
    assert_eq!(parse(&[]), Ok(Command::Train(request.clone())));
    let other = Request { steps: 1000, seed: 7, out: "a/b".into(), ..request.clone() };
    assert_eq!(parse(&["--steps", "1000", "--seed=7", "--out", "a/b"]), Ok(Command::Train(other)));
    let resumed = Request { resume: true, out: "-x".into(), ..request };
    assert_eq!(parse(&["--resume", "--out", "-x"]), Ok(Command::Train(resumed)));
    assert_eq!(parse(&["--steps", "5", "-h"]), Ok(Command::Help));
    for option in ["--steps", "--seed", "--out", "--resume"] {
        assert!(cli::HELP.contains(option));
    }
}

#[test]
fn a_run_that_was_stopped_says_which_arguments_go_on_with_it() {
    let of = |dtype| Request { steps: 7, seed: 5, out: "a/b".into(), dtype, resume: false };
    for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
        let arguments = cli::resuming(&of(dtype));
        let resumed = parse(&arguments.split(' ').collect::<Vec<_>>());
        // The seed of a run is in its file.
        assert_eq!(resumed, Ok(Command::Train(Request { seed: 1, resume: true, ..of(dtype) })));
    }
}

#[test]
fn bad_arguments_are_named() {
    for (args, message) in [
        (&["--steps"][..], "--steps needs a value"),
        (&["--steps", "0"], "--steps is `0`, expected a whole number from 1 on"),
        (&["--steps=many"], "--steps is `many`, expected a whole number from 1 on"),
        (&["--seed", "-1"], "--seed is `-1`, expected a whole number from 0 on"),
        (&["--out", ""], "--out needs a value"),
        (&["--step", "5"], "unknown option `--step` (see --help)"),
        (&["600"], "unknown argument `600` (see --help)"),
        (
            &["--resume", "--seed", "5"],
            "--resume goes on with the numbers of the run, it takes no --seed",
        ),
    ] {
        assert_eq!(parse(args), Err(message.into()));
    }
}

#[test]
fn the_play_has_as_many_characters_as_the_model() {
    let text = Text::new(PLAY);
    assert_eq!(PLAY.len(), 125_011);
    assert_eq!(text.count(), Characters::N);
    for (number, character) in ['\t', '\n', ' '].into_iter().enumerate() {
        assert_eq!(text.number(character), Some(number));
        assert_eq!(text.character(number), Some(character));
    }
    assert_eq!((text.number('é'), text.character(68)), (None, None));
}

#[test]
fn windows_are_followed_by_their_targets_and_do_not_reach_what_is_held_out() {
    // The last tenth is of another character.
    let text = Text::new(&("ab".repeat(450) + &"c".repeat(100)));
    let mut generator = Generator::seeded(3);
    let mut firsts = [0; 2];
    for _ in 0..40 {
        let (tokens, targets) = text.draw(Batch(C::<16>), &mut generator).unwrap();
        for (tokens, targets) in tokens.to_vec().chunks(64).zip(targets.to_vec().chunks(64)) {
            assert_eq!(tokens[1..], targets[..63]);
            assert!(targets.iter().all(|&token| token < 2));
            firsts[tokens[0]] += 1;
        }
    }
    assert!(firsts.iter().all(|&count| count > 200), "{firsts:?}");
    let starts = text.held_out();
    assert_eq!(starts, [900]);
    let (tokens, _) = text.windows(Batch(C::<1>), &starts).unwrap();
    assert!(tokens.to_vec().iter().all(|&token| token == 2));

    let text = Text::new(PLAY);
    let starts = text.held_out();
    assert_eq!((starts[0], starts.len()), (112_509, 195));
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] == 64));
    assert!(text.windows(Batch(C::<1>), &starts[194..]).is_ok());
}

#[test]
fn the_model_has_the_parameters_of_the_recipe() {
    let model = CharLm::<f32>::new(&mut Generator::seeded(1));
    assert_eq!(count_parameters(&model), 108_544);
    let names = names(&model);
    assert_eq!(names[0], "characters.weight");
    assert!(names.iter().all(|name| !name.contains("head")), "the head is tied");
}

#[test]
fn a_character_depends_on_none_that_follows() {
    let model = CharLm::<f32>::new(&mut Generator::seeded(1));
    let of = |last: usize| {
        let tokens = Tensor::<(Batch<C<1>>, Seq<C<4>>), _>::from([[5, 6, 7, last]]);
        model.forward(&tokens, &mut Infer).unwrap()
    };
    let (a, b) = (of(8), of(9));
    let [a_before, b_before] = [&a, &b].map(|it| it.try_slice(Seq, 0, C::<3>).unwrap().to_vec());
    assert_eq!(a_before, b_before);
    assert_ne!(a.to_vec(), b.to_vec());
    // Longer than the context, or no character of the play.
    let long = Tensor::<(Batch<C<1>>, Seq<C<65>>), usize>::zeros();
    assert!(model.forward(&long, &mut Infer).unwrap_err().is_index());
    let unknown = Tensor::<(Batch<C<1>>, Seq<C<1>>), usize>::from([[68]]);
    assert!(model.forward(&unknown, &mut Infer).unwrap_err().is_index());
}

#[test]
fn a_run_that_is_interrupted_goes_on_with_the_same_bits() {
    let (folder, text) = (Folder::new(), Text::new(PLAY));
    let path = folder.path("run.safetensors");
    let mut whole = Run::<f32>::new(2, 5).unwrap();
    // Of a model that knows nothing yet: near ln 68.
    assert!((whole.step(&text).unwrap() - 4.22).abs() < 0.1);
    whole.step(&text).unwrap();

    let mut first = Run::<f32>::new(2, 5).unwrap();
    first.step(&text).unwrap();
    first.save(&path).unwrap();
    let mut second = Run::<f32>::resume(2, &path).unwrap();
    assert_eq!(second.step, 1);
    assert_eq!(bits(&second.model), bits(&first.model));
    second.step(&text).unwrap();
    assert_eq!(bits(&second.model), bits(&whole.model));
    assert_ne!(bits(&second.model), bits(&first.model));
    assert!(Run::<f32>::resume(2, &folder.path("other")).is_err());
}

#[test]
fn the_held_out_loss_is_the_mean_over_all_windows() {
    // 20 windows: a batch of 16, and one of 4.
    let text = Text::new(&PLAY.replace('\n', "\n\n")[..13_000]);
    let starts = text.held_out();
    assert_eq!(starts.len(), 20);
    let run = Run::<f32>::new(1, 5).unwrap();
    let loss = |start: &usize| {
        let (tokens, targets) = text.windows(Batch(C::<1>), &[*start]).unwrap();
        let logits = run.model.forward(&tokens, &mut Infer).unwrap();
        f64::from(try_cross_entropy(&logits, &targets).unwrap().value())
    };
    let mean = starts.iter().map(loss).sum::<f64>() / 20.0;
    assert!((run.held_out(&text).unwrap() - mean).abs() < 1e-5);
    assert_eq!(training::CHARACTERS, 16 * 64);
}

#[test]
fn a_text_by_the_model_has_the_length_and_depends_on_the_seed() {
    let (text, model) = (Text::new(PLAY), CharLm::<f32>::new(&mut Generator::seeded(1)));
    let write = |beginning: &str, seed| {
        // More than the context: the beginning moves out of sight.
        sample::sample(&model, &text, beginning, Context::N + 6, &mut Generator::seeded(seed))
    };
    let written = write("ROSALINDé", 1).unwrap();
    assert_eq!(written.chars().count(), 70);
    assert_eq!(write("ROSALIND", 1).unwrap(), written);
    assert_ne!(write("ROSALIND", 2).unwrap(), written);
    // There must be something to go on from.
    assert!(write("é", 1).is_err());
}

fn losses() -> Losses {
    let steps = vec![4.25, 3.5, 3.125, 2.5];
    Losses { steps, held_out: vec![(0, 4.0), (2, 3.25), (4, 2.75)] }
}

#[test]
fn losses_are_read_as_they_were_written() {
    let csv = losses().to_csv();
    assert_eq!(
        csv,
        "steps done,loss of the step,held-out loss\n\
         0,,4\n1,4.25,\n2,3.5,\n2,,3.25\n3,3.125,\n4,2.5,\n4,,2.75\n"
    );
    assert_eq!(Losses::from_csv(&csv, 4), Ok(losses()));
    // Behind the step of the save: they will come again.
    let two = Losses { steps: vec![4.25, 3.5], held_out: vec![(0, 4.0), (2, 3.25)] };
    assert_eq!(Losses::from_csv(&csv, 2), Ok(two));
    assert_eq!(Losses::from_csv(&Losses::default().to_csv(), 0), Ok(Losses::default()));
}

#[test]
fn a_table_that_is_none_is_refused() {
    let header = "steps done,loss of the step,held-out loss";
    for (csv, message) in [
        (String::new(), "expected the first line `steps done,loss of the step,held-out loss`"),
        (format!("{header}\n1,2.0\n"), "line 2: expected `STEPS,LOSS,` or `STEPS,,LOSS`"),
        (format!("{header}\n1,2.0,\n2,x,\n"), "line 3: expected `STEPS,LOSS,` or `STEPS,,LOSS`"),
        (format!("{header}\n1,NaN,\n"), "line 2: expected `STEPS,LOSS,` or `STEPS,,LOSS`"),
        (format!("{header}\n1,1,1\n"), "line 2: expected `STEPS,LOSS,` or `STEPS,,LOSS`"),
        (format!("{header}\n1,2.0,\n"), "expected the losses of 3 steps, found 1"),
    ] {
        assert_eq!(Losses::from_csv(&csv, 3), Err(message.into()), "{csv:?}");
    }
}

#[test]
fn the_curve_has_its_losses_and_names() {
    let folder = Folder::new();
    let path = folder.path("loss.svg");
    let draw = |losses: &Losses| {
        losses.draw(&path).unwrap();
        std::fs::read_to_string(&path).unwrap()
    };
    let svg = draw(&losses());
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    for word in ["polyline", "held out", "of each step", "nats a character", "2.5", "4.5"] {
        assert!(svg.contains(word), "no {word:?}");
    }
    assert_eq!(svg.matches("<circle").count(), 3);
    for empty in [Losses::default(), Losses { steps: vec![1.0], held_out: vec![] }] {
        assert!(draw(&empty).starts_with("<svg"));
    }
    let error = losses().draw(&folder.path("missing/loss.svg")).unwrap_err();
    assert!(error.contains("loss.svg: "), "{error}");
}
