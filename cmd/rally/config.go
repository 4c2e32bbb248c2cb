package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"rally/internal/config"
)

// globalOptions hold for every command. They are settled once, before a
// command runs: a flag wins over its variable.
type globalOptions struct {
	db       string
	config   string
	dir      string
	logLevel string
	logFile  string
}

// globalVariables are the variables that stand in for global flags.
var globalVariables = map[string]string{
	"db": "RALLY_DB", "config": "RALLY_CONFIG", "log-level": "RALLY_LOG_LEVEL", "trust-project": "RALLY_TRUST_PROJECT",
}

func addGlobalFlags(f *pflag.FlagSet) {
	f.String("db", "", "session `FILE` (RALLY_DB; default: rally/rally.db in the user's data directory)")
	f.String("config", "", "read this config `FILE` too, above the user's and the project's (RALLY_CONFIG)")
	f.StringP("dir", "C", "", "work in `DIR`; moves a resumed session there")
	f.String("log-level", "", "log from `LEVEL` on: debug, info, warn, error (RALLY_LOG_LEVEL)")
	f.String("log-file", "", "write the log to `FILE` as JSON lines; secrets are masked")
}

// readGlobals settles the global options from flags and environment. With
// --hermetic the environment has no say but for the session file.
func (a *app) readGlobals(flags *pflag.FlagSet) error {
	v, err := a.viper(flags)
	if err != nil {
		return err
	}
	a.global = globalOptions{
		db: v.GetString("db"), config: v.GetString("config"), dir: v.GetString("dir"),
		logLevel: v.GetString("log-level"), logFile: v.GetString("log-file"),
	}
	return nil
}

// viper knows the flags and, below them, their variables. It gets the
// environment from us: the process's own is not ours to read in a test.
func (a *app) viper(flags *pflag.FlagSet) (*viper.Viper, error) {
	v := viper.New()
	hermetic, _ := flags.GetBool("hermetic") // a command without the flag is not
	for key, name := range globalVariables {
		if value := a.env(name); value != "" && (!hermetic || key == "db") {
			v.SetDefault(key, value)
		}
	}
	return v, v.BindPFlags(flags)
}

// loadConfigHere reads the layers for the directory we are in.
func (a *app) loadConfigHere(flags *pflag.FlagSet) (*config.Config, error) {
	dir, err := a.directory()
	if err != nil {
		return nil, err
	}
	return a.loadConfig(dir, flags)
}

// configKeys are the flags that stand above a key of the configuration.
var configKeys = map[string]string{
	"max-steps": "limits.steps", "max-cost": "limits.cost", "max-tokens": "limits.tokens", "timeout": "limits.timeout",
	"on-ask": "on_ask",
}

// loadConfig reads the layers for a session that works in dir.
func (a *app) loadConfig(dir string, flags *pflag.FlagSet) (*config.Config, error) {
	v, err := a.viper(flags)
	if err != nil {
		return nil, err
	}
	layer := map[string]string{}
	for flag, key := range configKeys {
		if flags.Changed(flag) {
			layer[key] = v.GetString(flag)
		}
	}
	if v.GetBool("yes") {
		layer["on_ask"] = "allow"
	}
	file := a.global.config
	if file != "" {
		if file, err = filepath.Abs(file); err != nil {
			return nil, usagef("", "--config: %w", err)
		}
		if _, err := os.Stat(file); err != nil {
			return nil, usagef("", "--config: %w", err)
		}
	}
	return config.Load(config.Options{
		Dir: dir, Home: a.env("HOME"), XDGConfig: a.env("XDG_CONFIG_HOME"), ConfigFile: file, Hermetic: v.GetBool("hermetic"),
		TrustProject: v.GetBool("trust-project"), Environ: a.environ, Flags: layer,
	})
}
