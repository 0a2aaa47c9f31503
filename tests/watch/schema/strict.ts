// Grafana's own types of a dashboard, made strict enough for JSON: text stands for enums, and the
// options of each kind of panel are those of its plugin.
import type { Dashboard, FieldConfig, FieldConfigSource, Panel, RowPanel } from '@grafana/schema';
import type * as BarGauge from '@grafana/schema/dist/types/raw/composable/bargauge/panelcfg/x/BarGaugePanelCfg_types.gen.d.ts';
import type * as Gauge from '@grafana/schema/dist/types/raw/composable/gauge/panelcfg/x/GaugePanelCfg_types.gen.d.ts';
import type * as Heatmap from '@grafana/schema/dist/types/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen.d.ts';
import type * as Stat from '@grafana/schema/dist/types/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen.d.ts';
import type * as StateTimeline from '@grafana/schema/dist/types/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen.d.ts';
import type * as Table from '@grafana/schema/dist/types/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen.d.ts';
import type * as Text from '@grafana/schema/dist/types/raw/composable/text/panelcfg/x/TextPanelCfg_types.gen.d.ts';
import type * as TimeSeries from '@grafana/schema/dist/types/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen.d.ts';

/** JSON has no enums: a text or a number stands for each of their values. */
type Plain<T> = T extends string
  ? `${T}`
  : T extends number
    ? `${T}` extends `${infer N extends number}` ? N : T
    : T extends boolean | null | undefined
      ? T
      : T extends Array<infer E>
        ? Array<Plain<E>>
        : unknown extends T
          ? T
          : { [K in keyof T]: Plain<T[K]> };

/** What the Prometheus plugin takes beside what every query has. */
interface PrometheusTarget {
  refId: string;
  datasource: { type: 'prometheus'; uid: string };
  expr: string;
  legendFormat?: string;
  format?: 'time_series' | 'table' | 'heatmap';
  instant?: boolean;
  range?: boolean;
  exemplar?: boolean;
  interval?: string;
  hide?: boolean;
  editorMode?: 'code' | 'builder';
}

/** A panel of one kind. Grafana fills in what is left out of its options. */
type Kind<Type extends string, Options, Custom = Record<string, never>> = Plain<
  Omit<Panel, 'type' | 'options' | 'fieldConfig' | 'targets'> & {
    title: string;
    description: string;
    options: Partial<Options>;
    fieldConfig: Omit<FieldConfigSource, 'defaults'> & {
      defaults: Omit<FieldConfig, 'custom'> & { custom?: Partial<Custom> };
    };
  }
> & { type: Type; targets?: PrometheusTarget[] };

/** Every kind of panel that the dashboards use. */
export interface Panels {
  bargauge: Kind<'bargauge', BarGauge.Options>;
  gauge: Kind<'gauge', Gauge.Options>;
  heatmap: Kind<'heatmap', Heatmap.Options, Heatmap.FieldConfig>;
  row: Plain<Omit<RowPanel, 'panels'>> & { panels: [] };
  stat: Kind<'stat', Stat.Options>;
  'state-timeline': Kind<'state-timeline', StateTimeline.Options, StateTimeline.FieldConfig>;
  table: Kind<'table', Table.Options, Table.FieldConfig>;
  text: Kind<'text', Text.Options>;
  timeseries: Kind<'timeseries', TimeSeries.Options, TimeSeries.FieldConfig>;
}

type Listed<T> = NonNullable<T> extends { list?: Array<infer E> } ? E : never;

/** A dashboard without its panels. Annotations and variables have what the Prometheus plugin adds. */
export type Frame = Plain<Omit<Dashboard, 'panels' | 'annotations' | 'templating'>> & {
  uid: string;
  title: string;
  annotations: {
    list: Array<
      Plain<Omit<Listed<Dashboard['annotations']>, 'target'>> & {
        target?: { refId: string; expr: string };
        expr?: string;
        titleFormat?: string;
        textFormat?: string;
        tagKeys?: string;
        step?: string;
        useValueForTime?: 'on' | 'off' | boolean;
      }
    >;
  };
  templating: { list: Array<Plain<Listed<Dashboard['templating']>> & { definition?: string }> };
};
