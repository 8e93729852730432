use flambeau_core::api::literal::tensor;
use flambeau_core::{Result, Tensor, ops};
use flambeau_distributions::*;
use std::sync::Arc;

/// A distribution of the user's: a point.
#[derive(Clone)]
struct Point {
    shapes: Shapes,
    at: Tensor,
}
impl Distribution for Point {
    fn name(&self) -> &'static str {
        "Point"
    }
    fn shapes(&self) -> &Shapes {
        &self.shapes
    }
    fn try_mean(&self) -> Result<Tensor> {
        Ok(self.at.clone())
    }
}
/// A region of the user's.
#[derive(Debug)]
struct Even;
impl CustomConstraint for Even {
    fn name(&self) -> String {
        "Even".into()
    }
    fn check(&self, value: &Tensor) -> Result<Tensor> {
        ops::eq(&ops::remainder(value, &tensor(2.0))?, &tensor(0.0))
    }
}

#[test]
fn users_write_distributions_constraints_and_divergences() {
    let p = Point { shapes: Shapes::new(&[], &[], None), at: tensor(2.0) };
    assert_eq!(p.to_text(), "Point()");
    assert!(p.try_variance().is_err());
    assert!(try_kl_divergence(&p, &Normal::new(0.0, 1.0)).is_err());
    register_kl(|p: &Point, q: &Normal| q.try_log_prob(&p.try_mean()?));
    // it serves a user's distribution wrapped as any, and other pairs are left alone
    let any: Arc<dyn Distribution> = Arc::new(p);
    assert!(try_kl_divergence(&*any, &Normal::new(0.0, 1.0)).is_ok());
    assert!(try_kl_divergence(&*any, &Laplace::new(0.0, 1.0)).is_err());

    let even = Constraint::Custom(Arc::new(Even));
    assert_eq!(even.check(&tensor([1.0, 2.0])).sum().item::<i64>(), 1);
    assert_eq!(even.to_string(), "Even()");
    assert_eq!(try_biject_to(&even).unwrap_err().message(), "Cannot transform Even constraints");
}
#[test]
fn registries_are_filled_by_users() {
    let r = ConstraintRegistry::new();
    assert!(r.try_transform(&constraints::positive()).is_err());
    r.register(&constraints::positive(), |_| Ok(transforms::SoftplusTransform.into()));
    assert_eq!(r.try_transform(&constraints::positive()).unwrap().to_text(), "SoftplusTransform()");
}
#[test]
fn cases_are_served_by_what_they_are_cases_of() {
    let d: Arc<dyn Distribution> = Arc::new(Chi2::new(3.0));
    assert!(d.downcast_ref::<Gamma>().is_none() && d.as_case_of::<Gamma>().is_some());
    let k = kl_divergence(&*d, &Gamma::new(1.5, 0.5));
    assert!(k.item::<f64>().abs() < 1e-6);
}
