import Broker

extension AccessToken {
    /// A token of the next version, with the same time of issue.
    var successor: AccessToken {
        AccessToken(
            token: Secret("successor"), credential: credential, expiresAt: expiresAt, scope: scope,
            version: version + 1, issuedAt: issuedAt)
    }
}
