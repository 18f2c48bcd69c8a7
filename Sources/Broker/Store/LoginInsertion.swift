/// The result of storing a new login.
///
/// The other two cases name the limit of `LoginLimits` that refused the login.
package enum LoginInsertion: Sendable, Equatable { case inserted, tooManyForToken, tooManyPending }
