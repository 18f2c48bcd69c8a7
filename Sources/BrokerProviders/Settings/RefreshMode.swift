/// `refresh: {mode}`: what a refresh does to the refresh token.
package enum RefreshMode: String, Sendable {
    /// `rotate`: an answer may bring a new one; without one the old one stays (SEC-57).
    case rotate
    /// `keep`: the provider never changes it.
    case keep
    /// `single_use`: the old one is dead as soon as the new pair exists.
    case singleUse = "single_use"
    /// `none`: there is no refresh; a refresh token in an answer is dropped.
    case none
}
