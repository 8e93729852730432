//! Tags are those of PyTorch 2.15.

use flambeau_core::Value;
use flambeau_library::tags::{Tag, tags};

#[test]
fn rows_say_their_tags() {
    for (name, want) in [
        ("nonzero", Some(Tag::DynamicOutputShape)),
        ("nonzero.out", Some(Tag::DynamicOutputShape)),
        ("index.Tensor", Some(Tag::DynamicOutputShape)),
        ("equal", Some(Tag::DataDependentOutput)),
        ("atleast_2d", Some(Tag::MaybeAliasingOrMutating)),
        ("rand_like", Some(Tag::NondeterministicSeeded)),
        // by its generator
        ("rand", Some(Tag::NondeterministicSeeded)),
        ("bernoulli", Some(Tag::NondeterministicSeeded)),
        ("add.Tensor", None),
        ("aten::mm", None),
    ] {
        let mut all: Vec<Tag> = want.into_iter().collect();
        all.push(Tag::Pt2CompliantTag);
        assert_eq!(tags(name), Some(all), "{name}");
    }
    assert_eq!(tags("no_such_operator"), None);
    assert_eq!(Tag::InplaceView.to_string(), "Tag.inplace_view");
}

#[test]
fn tags_are_constants() {
    let tag = flambeau_library::constant("torch.Tag.inplace_view").unwrap();
    let Value::Object(tag) = &tag else { panic!("no tag") };
    assert_eq!(tag.repr(), "<Tag.inplace_view: 7>");
    assert!(matches!(tag.attribute("value"), Ok(Value::Int(7))));
    for t in Tag::ALL {
        assert!(flambeau_library::constant(t.name()).is_some(), "{t}");
    }
}
