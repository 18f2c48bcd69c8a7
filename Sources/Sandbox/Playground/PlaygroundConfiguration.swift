/// The settings of the playground: the broker's address, and the pipe to the script that restarts the broker.
package struct PlaygroundConfiguration: Sendable {
    /// The broker's `public_url`.
    ///
    /// The caller omits a final slash.
    package var broker: String
    /// The named pipe that takes `kill-broker`, one command per line; nil if no script reads it.
    package var commands: String?

    /// Creates a configuration.
    package init(broker: String, commands: String? = nil) {
        self.broker = broker
        self.commands = commands
    }
}
