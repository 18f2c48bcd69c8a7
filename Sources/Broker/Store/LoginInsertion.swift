/// The result of storing a new login.
package enum LoginInsertion: Sendable, Equatable { case inserted, tooManyForToken, tooManyPending }
