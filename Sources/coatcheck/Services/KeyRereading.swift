import Broker

/// Checks the key file every two seconds and on demand, without waiting for a file that hangs.
struct KeyRereading: Sendable {
    static let interval = Duration.seconds(2)

    private struct Text: Sendable {
        let bytes: Result<[UInt8], StartFailure>
        let isAsked: Bool
    }

    private let watch: KeyWatch
    private let clock: BrokerClock
    private let log: ProcessLog
    private let reading: Rereading<Text>

    init(_ watch: KeyWatch, _ clock: BrokerClock, log: ProcessLog) {
        self.watch = watch
        self.clock = clock
        self.log = log
        reading = Rereading(
            sleep: clock.sleep,
            isLate: {
                log.write(
                    .warning, "key file still reading",
                    [
                        (
                            "detail",
                            "the file does not answer, for example on a hanging mount; the present keys stay in use until it does"
                        )
                    ])
            },
            take: { watch.take($0.bytes, isAsked: $0.isAsked) })
    }

    /// Checks the file, and returns when its text was used or the reading hangs.
    ///
    /// With `isAsked`, an unchanged text is used too.
    func look(isAsked: Bool) async {
        // While a reading hangs, the periodic check looks only for a waiting key whose time has come.
        guard isAsked || !reading.isReading else { return watch.lookAtTime() }
        let isBegun = await reading.run { [watch] in Text(bytes: watch.read(), isAsked: isAsked) }
        if !isBegun {
            log.write(
                .error, "keys not reloaded",
                [("detail", "the key file does not answer, and several readings hang; check its mount")])
        }
    }

    /// The periodic check, every two seconds.
    var service: RepeatedWork {
        RepeatedWork(clock: clock, delay: Self.interval) {
            await look(isAsked: false)
            return Self.interval
        }
    }
}
