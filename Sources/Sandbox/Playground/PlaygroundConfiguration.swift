/// The broker that the playground shows, and who restarts it.
package struct PlaygroundConfiguration: Sendable {
    /// The broker's `public_url`, without a trailing slash.
    package var broker: String
    /// The named pipe that takes `kill-broker`, a command a line; nil where nobody listens.
    package var commands: String?

    /// A configuration.
    package init(broker: String, commands: String? = nil) {
        self.broker = broker
        self.commands = commands
    }
}
