use flambeau_fx::symbolic::{Bindings, Expr, Number};

fn parsed(s: &str) -> Expr {
    let e = Expr::parse(s).unwrap();
    assert_eq!(e.srepr(), s);
    e
}
#[test]
fn expressions_are_read_printed_and_computed() {
    let b: Bindings = [("s77".to_string(), 7), ("u0".to_string(), -3)].into();
    for (text, shown, value) in [
        ("Mul(Integer(2), Symbol('s77', positive=True, integer=True))", "2*s77", 14),
        ("Add(Symbol('s77', positive=True, integer=True), Integer(-2))", "s77 - 2", 5),
        ("Pow(Symbol('s77', positive=True, integer=True), Integer(2))", "s77**2", 49),
        (
            "Add(FloorDiv(Add(Symbol('s77', positive=True, integer=True), Integer(-1)), Integer(2)), Integer(1))",
            "(((s77 - 1)//2)) + 1",
            4,
        ),
        ("Max(Integer(1), Symbol('u0', integer=True))", "Max(1, u0)", 1),
        ("FloorDiv(Symbol('u0', integer=True), Integer(2))", "(u0//2)", -2),
        (
            "TruncToInt(Mul(Float('0.5', precision=53), ToFloat(Symbol('s77', positive=True, integer=True))))",
            "TruncToInt(0.5*ToFloat(s77))",
            3,
        ),
        (
            "TruncToInt(FloatTrueDiv(Float('1.5', precision=53), ToFloat(Symbol('u0', integer=True))))",
            "TruncToInt(FloatTrueDiv(1.5, ToFloat(u0)))",
            0,
        ),
        ("CeilToInt(IntTrueDiv(Symbol('u0', integer=True), Integer(2)))", "CeilToInt(IntTrueDiv(u0, 2))", -1),
    ] {
        let e = parsed(text);
        assert_eq!(e.to_string(), shown);
        assert_eq!(Expr::read(shown).unwrap().evaluate(&b), Some(Number::Int(value)), "{shown}");
        assert_eq!(e.evaluate(&b), Some(Number::Int(value)), "{shown}");
    }
    let e = parsed("GreaterThan(Symbol('u0', integer=True), Integer(0))");
    assert_eq!(e.to_string(), "u0 >= 0");
    assert_eq!(e.evaluate(&b), Some(Number::Bool(false)));
    assert_eq!(e.evaluate(&Bindings::new()), None);
}
#[test]
fn sizes_are_solved() {
    let e = Expr::parse("Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(1))").unwrap();
    assert_eq!(e.solve(9), Some(("s0".into(), 4)));
    assert_eq!(e.solve(8), None);
}
#[test]
fn other_text_is_refused() {
    for s in ["", "Mul(", "Symbol('a'", "Integer(x)", "Foo(Integer(1))", "Integer(1) rest", "Pow(Integer(1))"]
    {
        assert!(Expr::parse(s).is_err(), "{s}");
    }
    let deep = format!("{}Integer(1){}", "Not(".repeat(100_000), ")".repeat(100_000));
    assert!(Expr::parse(&deep).is_err());
    let big = Expr::parse("Pow(Integer(10), Integer(90))").unwrap();
    assert_eq!(big.evaluate(&Bindings::new()), None);
}
